"""The spec of the mixture of other methods."""

from calcli.methods.spec import MethodSpec, integer, text

SPECS = (
    MethodSpec(
        name="pool",
        family="mixtures",
        target="calcli.methods.pool",
        summary="a mixture of several calibrators, weighted by held-out likelihood",
        reference="Wolpert 1992; Dempster et al. 1977",
        simplicity=30,
        multiclass="native",
        needs_features=True,
        content_without=True,
        closed_form=True,
        explains=True,
        params=(
            text("members", "auto", "methods, separated by commas; auto is those that --method auto compares"),
            text("weights", "auto", "a weight for each member, separated by commas; found on held-out rows if auto"),
            integer("most", 5, "the most members that are kept", 1, 50),
        ),
    ),
)
