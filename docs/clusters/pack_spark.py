# Packs /shared/train into /shared/train.stk on a Spark cluster, one task for each part. Spark runs a lost task again,
# which resumes the part. Turn speculation off: two packings of one part refuse each other.
import subprocess

from pyspark.sql import SparkSession

PARTS = 8


def pack(part):
    command = ["stoker", "pack", "/shared/train", "/shared/train.stk", "--codec", "dct", "--part", f"{part}/{PARTS}"]
    subprocess.run(command, check=True)


spark = SparkSession.builder.appName("stoker-pack").config("spark.speculation", "false").getOrCreate()
spark.sparkContext.parallelize(range(PARTS), PARTS).foreach(pack)
subprocess.run(["stoker", "pack", "--merge", "/shared/train.stk"], check=True)
