"""The specs of the methods, by family; they import no method."""
