/** What the work came to; null: it failed, or took longer. Never rejects. */
export function withTimeout<Value>(limitMs: number, work: Promise<Value>): Promise<{ readonly value: Value } | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), limitMs)
    work
      .then(
        (value) => resolve({ value }),
        () => resolve(null),
      )
      .finally(() => clearTimeout(timer))
  })
}
