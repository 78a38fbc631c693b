# Ignite: checkpoints hold the loader's state with that of the Engine. Ignite does not move batches: give the loader a
# `device`. From your program: torch, cross_entropy, net, loader, folder, epochs, save_every; checkpoint, or None.
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver

optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)

def train(engine, batch):
    optimizer.zero_grad()
    cross_entropy(net(batch["image"]), batch["label"]).backward()
    optimizer.step()

trainer = Engine(train)
saved = {"net": net, "optimizer": optimizer, "trainer": trainer, "loader": loader}
files = DiskSaver(folder, require_empty=False)
saving = Checkpoint(saved, files, n_saved=None, global_step_transform=lambda engine, event: engine.state.iteration)
trainer.add_event_handler(Events.ITERATION_COMPLETED(every=save_every), saving)
if checkpoint:
    Checkpoint.load_objects(saved, checkpoint)
trainer.run(loader, max_epochs=epochs)
