"""Acting as a user who is not root, for permissions that root does not feel."""

import multiprocessing
import os

NOBODY = 65534


def as_nobody(function, *arguments):
    """Call a function in a child process without root's rights and return its answer."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_call, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        answer, error = receiver.recv()
    finally:
        child.join()
        receiver.close()
    if error is not None:
        raise AssertionError(error)
    return answer


def _call(sender, function, arguments):
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        sender.send((function(*arguments), None))
    except BaseException as error:  # noqa: BLE001  the parent raises it
        sender.send((None, repr(error)))
