"""The directory that keeps a fitted calibrator.

``store`` reads and writes it, ``manifest`` is its table of contents, ``codecs`` turns states into files and back,
``upgrade`` holds the law of the format. ``files`` and ``strictjson`` are the floor they stand on.
"""
