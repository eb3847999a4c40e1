def choose_size(recipe, table, generator, reporter):
    return {}
