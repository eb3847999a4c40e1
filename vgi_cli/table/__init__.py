"""Tables in and out: reader, schema, codecs, encoder, writer. pandas and pyarrow are imported here and nowhere else."""
