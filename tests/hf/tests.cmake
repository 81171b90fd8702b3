# Folders of Hugging Face: what transformers made of small fixed ones.
apc_test(NAME hf.agree COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/agree.py ${CMAKE_BINARY_DIR}/apc)
