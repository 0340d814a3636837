"""The world outside: processes that outlive every kill, each with a log that is only added to."""
