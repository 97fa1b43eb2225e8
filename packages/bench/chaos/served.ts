/** `firstlight` with the words after this file, as a child whose I/O threads its parent can kill: it sends `kill`. */
import type { Worker } from 'node:worker_threads'

const threads = new Set<Worker>()
process.on('worker', (thread: Worker) => {
  threads.add(thread)
  thread.once('exit', () => threads.delete(thread))
})
process.on('message', () => {
  const [first] = threads
  if (first === undefined) return
  // The others first, the next time.
  threads.delete(first)
  threads.add(first)
  void first.terminate()
})
process.channel?.unref()

await import('../../../src/node.ts')
