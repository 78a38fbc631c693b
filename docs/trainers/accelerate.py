# Accelerate: `prepare` leaves a loader alone, so the prefetcher moves the batches to the device;
# `register_for_checkpointing` adds its position to checkpoints.
# From your program: accelerate, torch, stoker, cross_entropy, net, loader, folder, epochs, save_every, step = 0;
# checkpoint, or None to begin.
accelerator = accelerate.Accelerator()
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.01, momentum=0.9))
batches = stoker.torch.DevicePrefetcher(loader, accelerator.device)
accelerator.register_for_checkpointing(batches)
if checkpoint:
    accelerator.load_state(checkpoint)
for epoch in range(loader.epoch, epochs):
    for batch in batches:
        loss = cross_entropy(net(batch["image"]), batch["label"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % save_every == 0:
            accelerator.save_state(f"{folder}/{step}")
