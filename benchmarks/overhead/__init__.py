"""What Planloom itself costs beside the models and the upstreams."""
