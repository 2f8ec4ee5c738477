"""The ids with which every vocabulary begins."""

PAD = 0  # fills a row up to the width of its batch; never a token
BOS = 1  # y_0, the word before the first; never an output
EOS = 2  # the end mark, the last token of every sentence
UNK = 3  # a word that the vocabulary doesn't have
