"""The directory that keeps a fitted calibrator.

``store`` reads and writes it, by ``generation`` and ``writers``; ``manifest`` is its table of contents and the rules of
its format; ``codecs`` turns states into files and back; ``checkpoint`` keeps the finished parts of a killed run. Below
them are ``calcli.files`` and ``strictjson``.
"""
