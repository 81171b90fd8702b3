# Compares the cost model with published measurements, on the rows that were not used to choose its constants.  Medians
# were 8.9 % (collectives) and 4.7 % (products), means 14.5 % and 7.8 %; bench/results/cost-model.md, docs/accuracy.md.
apc_test(NAME published.cost_model COMMAND $<TARGET_FILE:bench_cost_model> --bound 12 8 --means 15 8
  ${CMAKE_SOURCE_DIR}/bench/published)
