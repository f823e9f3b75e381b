"""The errors that cross a border of ours.

GpuresError
├── ApiError                a call to the API server did not do what was asked
│   ├── NotFound            404: no such object
│   ├── Conflict            409: the precondition (resourceVersion, name) does not hold; look again
│   ├── Refused             400, 403, 422: judged and turned down; the same request will be turned down again
│   ├── Gone                410: the watch must start from a new list
│   ├── Throttled           429: come back after `retry_after_s`
│   └── OutcomeUnknown      cut, timed out or 5xx: it may or may not have happened
├── MalformedReview         the AdmissionReview cannot be read: a 4xx with one sentence
└── MalformedObject         an object from the API server has a field that we cannot read
"""


class GpuresError(Exception):
    """Root of what we raise on purpose."""


class ApiError(GpuresError):
    """`status` is the HTTP code, 0 where there was no answer; `message` is the API server's own sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
        self.message = message


class NotFound(ApiError):
    pass


class Conflict(ApiError):
    pass


class Refused(ApiError):
    pass


class Gone(ApiError):
    pass


class Throttled(ApiError):
    def __init__(self, status: int, message: str, retry_after_s: float) -> None:
        super().__init__(status, message)
        self.retry_after_s = retry_after_s


class OutcomeUnknown(ApiError):
    pass


class MalformedReview(GpuresError):
    """`status` is the HTTP code to answer with: 400, 405, 413 or 415."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class MalformedObject(GpuresError):
    pass
