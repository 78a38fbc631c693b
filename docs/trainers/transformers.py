# The Trainer of transformers: `TrainerLoader` skips batches without reading them, as the Trainer does up to the
# checkpoint's step. The Trainer moves the batches to the device, and passes their fields to the model by name.
# From your program: transformers, torch, cross_entropy, net, loader, folder, epochs, save_every; checkpoint, or None.
from stoker.transformers import TrainerLoader

class Classifier(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, label, **others):
        return {"loss": cross_entropy(self.net(image), label)}

class Trainer(transformers.Trainer):
    def get_train_dataloader(self):
        return TrainerLoader(loader)

args = transformers.TrainingArguments(folder, num_train_epochs=epochs, save_steps=save_every)
trainer = Trainer(Classifier(net), args)
trainer.train(resume_from_checkpoint=checkpoint)
