"""Errors that the store raises beside Refused. All of these end the kernel; none is a caller's mistake."""


class StoreError(Exception):
    """Root of this package's errors."""


class CannotOpen(StoreError):
    """The database cannot be used: newer than this program, damaged, or not ours. The file is untouched."""


class DatabaseBusy(CannotOpen):
    """Another program has locked the database, for longer than was waited."""


class StorageFailed(StoreError):
    """The disk failed while writing (not: it is full). What was not answered may not be durable; restart to recover."""


class CannotSave(StoreError):
    """The contents of a database that is gone could not be copied, and are lost."""
