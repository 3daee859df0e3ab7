"""Making a failing scenario small."""
