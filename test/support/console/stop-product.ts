export = async (): Promise<void> => {
  const shared = globalThis as { console_product?: { stop: () => Promise<void> } };
  await shared.console_product?.stop();
};
