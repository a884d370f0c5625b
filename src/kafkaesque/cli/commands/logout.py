"""`kafkaesque logout`: ends the session of `kafkaesque login`."""

from kafkaesque.cli.arguments import JsonOption, new_app
from kafkaesque.cli.screen import Screen

app = new_app(no_args_is_help=False)


@app.command()
def logout(json: JsonOption = False) -> None:
    """End the session, here and at the cluster.

    \b
    Example:
      kafkaesque logout
    """
    from kafkaesque.cli.admin_requests import end_session
    from kafkaesque.cli.failure import CommandFailed
    from kafkaesque.cli.session_file import read_session, session_path

    session = read_session()
    if session is None:
        Screen(json=json).done("not logged in", {"user": None})
        return
    try:
        if not session.is_over:
            end_session(session)
    finally:
        # Whoever logs out wants the token off this machine, whether or not a broker answers.
        try:
            session_path().unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(f"{session_path()} cannot be removed: {error.strerror}") from None
    Screen(json=json).done(f"{session.user} is logged out", {"user": session.user})
