"""One file per verb: a frozen request in, a frozen result out. Verbs print nothing and exit nowhere."""
