# calcli from this checkout:          docker build -t calcli .
# with everything that is optional:   docker build -t calcli --build-arg EXTRAS=all .
FROM python:3.11-slim AS build
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY calcli calcli
RUN python -m venv /opt/calcli && /opt/calcli/bin/pip install --no-cache-dir ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim
COPY --from=build /opt/calcli /opt/calcli
RUN useradd --uid 10001 --create-home calcli
ENV PATH=/opt/calcli/bin:$PATH
USER 10001
WORKDIR /data
ENTRYPOINT ["calcli"]
