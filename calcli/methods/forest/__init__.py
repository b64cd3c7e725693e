"""The forest: `kernels` are its compiled loops, `growing` grows the trees, `forest` is the method."""
