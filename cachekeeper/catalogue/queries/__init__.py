"""The questions, one module a subject: functions of a View that never write records' rows."""
