"""What a user can cause, as exceptions.

    DataioError
    ├── RecipeError (ValueError)         a recipe that cannot be: unknown key, size out of range …
    ├── PlanError (ValueError)           a plan that cannot be, or that the recipe or the data forbids
    ├── SourceError (ValueError)         a source folder that cannot be converted
    ├── SourceChanged (RuntimeError)     the source differs from what an earlier run saw
    ├── DataNotFound (FileNotFoundError) no dataset at a path, or no such split
    ├── DataDamaged (ValueError)         a dataset whose bytes are not what its manifest says
    ├── DestinationError (OSError)       a place that cannot be written: exists, busy, full, read-only
    ├── RecordError (ValueError)         a JSON file of ours that does not have our form
    ├── StepError (ValueError)           a training step that cannot be run
    ├── MissingExtra (ImportError)       an optional package is not installed
    └── LimitExceeded (RuntimeError)     a limit that the user set was not met (exit code 3)

Each message says what was being done to which file, what was found, and what to do. Only `dataio.cli` catches them.
"""


class DataioError(Exception):
    """Base of every error that input, files or options can cause; never raised itself."""


class RecipeError(DataioError, ValueError):
    """The recipe is not valid; the message names the field and what it takes."""


class PlanError(DataioError, ValueError):
    """The plan is not valid, or not allowed for this recipe or this data."""


class SourceError(DataioError, ValueError):
    """The source folder has no layout or no pictures that can be converted."""


class SourceChanged(DataioError, RuntimeError):
    """Files of the source were added, removed or edited since an earlier run; the message says which."""


class DataNotFound(DataioError, FileNotFoundError):
    """There is no dataset, or no such split, at the path."""


class DataDamaged(DataioError, ValueError):
    """Stored bytes differ from what was written; the message names file, record and offset where known."""


class DestinationError(DataioError, OSError):
    """The output cannot be written: it exists, is in use, is full, or is not writable."""


class RecordError(DataioError, ValueError):
    """A JSON file does not have the form that its schema number promises."""


class StepError(DataioError, ValueError):
    """The training step named by the user cannot be loaded or run."""


class MissingExtra(DataioError, ImportError):
    """An optional package is missing; the message gives the pip command."""


class LimitExceeded(DataioError, RuntimeError):
    """A limit set by the user, such as `--max-stall`, was not met."""
