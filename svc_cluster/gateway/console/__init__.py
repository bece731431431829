"""The console: static pages for a browser, which ask the public interface and nothing else."""
