"""Exit codes of every command, for scripts; `docs/cli.md` has them for people."""

OK = 0
#: It was understood and could not be done, or was done in part; also if a broker answers and
#: nobody does it in time, as without a controller.
FAILED = 1
#: The command line, a configuration or an option is wrong; nothing was done.
WRONG_USAGE = 2
#: No broker answered.
UNREACHABLE = 3
#: A check found data that is lost, damaged, duplicated or contradicts itself.
DAMAGED = 4
#: What was waited for did not happen in time.
TIMED_OUT = 5
#: Ctrl-C, where that is not the ordinary way to end the command.
INTERRUPTED = 130
