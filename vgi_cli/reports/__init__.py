"""The report on a run: pure numbers, verdicts from stated thresholds, pictures, one page of HTML."""
