# The cost model against published measurements, on the rows that were not looked at when its constants were chosen: the median error was
# 10.1 % (collectives) and 6.1 % (products); bench/results/cost-model.md.
apc_test(NAME published.cost_model COMMAND $<TARGET_FILE:bench_cost_model> --bound 12 8 ${CMAKE_SOURCE_DIR}/bench/published)
