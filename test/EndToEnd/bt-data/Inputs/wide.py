"""Writes a vocabulary of 70,001 words as a tokenizer.json and a text of them:
wide.py FOLDER."""
import random
import sys

from tokenizers import Tokenizer, models, pre_tokenizers

folder = sys.argv[1]
words = {f"w{i}": i for i in range(70_000)}
words["<|endoftext|>"] = 70_000
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.save(f"{folder}/wide.json")

generator = random.Random(5)
with open(f"{folder}/wide.txt", "w") as file:
    text = [f"w{generator.choice((1, 65535, 65536, 69999))}" for _ in range(2000)]
    file.write(" ".join(text))
