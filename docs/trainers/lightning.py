# Lightning: checkpoints hold the loader's state, and Lightning moves the batches to the device.
# From your program: torch, cross_entropy, net, loader, folder, epochs, save_every; checkpoint, or None to begin.
from pytorch_lightning import LightningModule, Trainer   # or lightning.pytorch
from pytorch_lightning.callbacks import ModelCheckpoint

class Classifier(LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, number):
        return cross_entropy(self.net(batch["image"]), batch["label"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01, momentum=0.9)

saving = ModelCheckpoint(folder, every_n_train_steps=save_every, save_top_k=-1)
trainer = Trainer(max_epochs=epochs, callbacks=[saving])
trainer.fit(Classifier(net), loader, ckpt_path=checkpoint)
