# One node, or toxiproxy: what `zab run --on containers` and docker-compose.yml start.
#
# `zab image` builds it: it lays out the context (pyproject.toml, constraints.txt, the project's wheel, the static
# toxiproxy-server) and names the base. Only what the classic builder knows is used: no --mount, no here-documents.
ARG BASE=python:3.11-slim

# `.ci/image dependencies` builds this stage alone, before there is a wheel.
FROM ${BASE} AS dependencies
RUN python3 -m venv /opt/zab
COPY pyproject.toml constraints.txt /build/
RUN python3 -c 'import tomllib; it = tomllib.load(open("/build/pyproject.toml", "rb"))["project"]; \
print(*it["dependencies"], *it["optional-dependencies"]["containers"], sep="\n")' > /build/requirements.txt \
 && /opt/zab/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/requirements.txt

FROM dependencies AS build
COPY *.whl /build/
RUN /opt/zab/bin/pip install --no-cache-dir --no-deps /build/*.whl \
 && /opt/zab/bin/python -m pip uninstall --quiet --yes pip setuptools

FROM ${BASE}
COPY toxiproxy-server /usr/local/bin/toxiproxy-server
COPY --from=build /opt/zab /opt/zab
# A volume takes over owner and mode of the folder that it covers. /data is open to all because a run's containers have
# the numbers of the user who started it; nobody else is in there.
RUN mkdir -m 1777 /data && mkdir -m 0700 /run/zab && chown 10001:10001 /run/zab
ENV PATH=/opt/zab/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
