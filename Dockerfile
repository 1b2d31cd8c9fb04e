# Planloom over HTTP, with the versions that the tests run on. docs/install.md says how to run it.
FROM python:3.11-slim-trixie

# npx starts Context7; uv, which fetches Serena, comes with Planloom.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends nodejs npm \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/planloom
RUN pip install --no-cache-dir uv
COPY pyproject.toml requirements.lock README.md LICENSE upstreams.yaml ./
COPY planloom planloom
COPY planner planner
COPY server server
RUN uv pip install --system --no-cache --constraint requirements.lock .

RUN useradd --create-home planloom
USER planloom
# Upstreams that were downloaded, runs on record, pins: what a volume here keeps.
RUN mkdir -p /home/planloom/.cache /home/planloom/.config /home/planloom/.local/state
WORKDIR /project

ENV PLANLOOM_PROJECT=/project \
    OLLAMA_HOST=http://host.docker.internal:11434
EXPOSE 8000
HEALTHCHECK --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["planloom"]
CMD ["serve", "--http", "0.0.0.0:8000"]
