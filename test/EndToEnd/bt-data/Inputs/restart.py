"""Kills bt-data in the middle, and sees that it goes on: restart.py BT_DATA FOLDER."""
import glob
import os
import random
import re
import signal
import subprocess
import sys
import time

program, folder = sys.argv[1:]
generator = random.Random(3)
words = ["".join(generator.choices("etaoinshrdlu", k=5)) for _ in range(1000)]
with open(f"{folder}/text.txt", "w") as file:
    file.write(" ".join(generator.choices(words, k=400_000)))


def command(name):
    options = ["--jobs", "2", "--piece-bytes", "5000"]
    return [program, "tokenize", f"{folder}/text.txt", "-o", f"{folder}/{name}", *options]


def shards(name):
    found = {}
    for path in sorted(glob.glob(f"{folder}/{name}_*.bin")):
        with open(path, "rb") as file:
            found[path.rpartition(f"/{name}_")[2]] = file.read()
    return found


subprocess.run(command("whole"), check=True, capture_output=True)

process = subprocess.Popen(
    command("killed"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
)
parts = f"{folder}/killed.parts/*.tokens"
while len(glob.glob(parts)) < 20 and process.poll() is None:
    time.sleep(0.001)
process.send_signal(signal.SIGKILL)
# The pipes end when the workers have ended too.
process.communicate(timeout=30)
done = len(glob.glob(parts))
assert done >= 20, done
assert not shards("killed"), "shards before the end"

# As if it had been killed while the shards got their names.
with open(f"{folder}/killed_train_000000.bin", "wb") as file:
    file.write(b"of the last run")
with open(f"{folder}/killed.parts/.killed_val_000000.bin.x1", "wb") as file:
    file.write(b"unfinished")
again = subprocess.run(command("killed"), check=True, capture_output=True, text=True)
pieces = list(map(int, re.findall(r"(\d+)/\d+ pieces", again.stderr)))
assert pieces[0] > done, (pieces, done)
assert shards("killed") == shards("whole")
assert not os.path.exists(f"{folder}/killed.parts")
print("the same shards")
