# The planted bottlenecks and the healthy runs of `--device cuda`. A GPU is so fast that each run needs many samples, and
# models that are more than a toy.
from scenarios import COSTLY_OPS, MLP, RESNET, Plan, Scenario, cores, epochs

CROP = '{op = "random_resized_crop", size = [224, 224]}, {op = "normalize", preset = "imagenet"}'
NORMALIZE = '{op = "normalize", preset = "imagenet"}'


def photos(data, rng):
    return data.images("photos", 96, int(rng.choice([500, 600])))


def samples(count):
    return f"\nepoch_samples = {count}"


def no_workers(rng, data):
    return Plan(photos(data, rng), "batch_size = 64\nworkers = 0" + samples(3200), RESNET + epochs(2), ops=CROP)


def few_workers(rng, data):
    workers = rng.choice([1, 2])
    plan = f"batch_size = 64\nworkers = {workers}" + samples(6400 * workers)
    return Plan(photos(data, rng), plan, RESNET + epochs(2), ops=CROP)


def decode_bound(rng, data):
    images = data.images("large", 48, int(rng.choice([1500, 1900])))
    return Plan(images, "batch_size = 32" + samples(1600 * cores()), MLP + epochs(2))


def augment_bound(rng, data):
    plan = f"batch_size = {rng.choice([32, 64])}" + samples(6000 * cores())
    return Plan(data.arrays(100, 256), plan, MLP + epochs(2), ops=COSTLY_OPS)


def storage_bound(rng, data):
    images = data.images("small", 200, int(rng.choice([80, 120])))
    slow = {"SLOW_UNDER": str(images), "SLOW_US": str(rng.integers(6000, 12000))}
    return Plan(images, "batch_size = 32" + samples(400 * cores()), MLP + epochs(2), environment=slow)


def launch_bound(rng, data):
    arrays = data.arrays(500, int(rng.choice([16, 24])))
    rest = RESNET + epochs(2) + 'compile = "none"\n'
    return Plan(arrays, f"batch_size = {rng.choice([8, 16])}" + samples(8000), rest, ops=NORMALIZE)


def frequent_evaluation(rng, data):
    arrays, val = data.arrays(500, 32), data.arrays(20000, 32, seed=1)
    plan = f"batch_size = {rng.choice([32, 64])}" + samples(6400)
    return Plan(arrays, plan, RESNET + epochs(10), val=str(val), ops=NORMALIZE)


def frequent_checkpoints(rng, data):
    rest = RESNET + f'[train]\nepochs = 2\ncheckpoint_every = "{rng.integers(2, 6)} steps"\n'
    return Plan(data.arrays(500, 32), "batch_size = 64" + samples(6400), rest, ops=NORMALIZE)


def healthy_graph(rng, data):
    plan = f"batch_size = {rng.choice([64, 128])}" + samples(64000)
    return Plan(data.arrays(500, 32), plan, RESNET + epochs(3), ops=NORMALIZE)


def healthy_photos(rng, data):
    plan = f"batch_size = {rng.choice([64, 128])}" + samples(12800)
    return Plan(photos(data, rng), plan, RESNET.replace("resnet18", "resnet50") + epochs(3), ops=CROP)


def healthy_on_device(rng, data):
    plan = f'batch_size = {rng.choice([64, 128])}\ncache = "device"' + samples(400000)
    return Plan("synth:digits?count=10000", plan, MLP.replace("classes = 4", "classes = 10") + epochs(4), ops="")


GPU_SCENARIOS = [
    Scenario("no-workers", no_workers),
    Scenario("few-workers", few_workers),
    Scenario("decode-bound", decode_bound),
    Scenario("augment-bound", augment_bound),
    Scenario("storage-bound", storage_bound),
    Scenario("launch-bound", launch_bound),
    Scenario("frequent-evaluation", frequent_evaluation),
    Scenario("frequent-checkpoints", frequent_checkpoints),
    Scenario("healthy: graph", healthy_graph),
    Scenario("healthy: photos", healthy_photos),
    Scenario("healthy: data on the device", healthy_on_device),
]
