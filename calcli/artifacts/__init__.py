"""The directory that keeps a fitted calibrator.

``store`` reads and writes it, ``manifest`` is its table of contents, ``codecs`` turns states into files and back,
``upgrade`` holds the rules of the format, ``checkpoint`` keeps what a killed run has finished. ``calcli.files`` and
``strictjson`` are what they are built on.
"""
