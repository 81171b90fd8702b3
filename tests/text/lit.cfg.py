# Configuration of the text tests: `RUN: %opt %s | %check %s`.
import lit.formats
import os

config.name = "apc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".ir"]
config.test_source_root = os.path.dirname(__file__)
build = lit_config.params["build"]
config.test_exec_root = os.path.join(build, "text-tests")
config.substitutions += [
    ("%apc", os.path.join(build, "apc")),
    ("%source", os.path.dirname(os.path.dirname(config.test_source_root))),
    ("%opt", os.path.join(build, "apc-opt")),
    ("%check", lit_config.params["filecheck"]),
]
