/** The deployed Worker (dist/worker, see test/setup/built-worker.ts) in workerd, on a real socket. */
import { startEdge } from '../../scripts/edge.ts'

export interface BuiltWorker {
  readonly url: string
  close(): Promise<void>
}

/** `bindings` as on a deployed Worker; the configuration is `FIRSTLIGHT_CONFIG`. */
export async function startBuiltWorker(bindings: Readonly<Record<string, string>>): Promise<BuiltWorker> {
  const { url, stop } = await startEdge({ port: 0, bindings, quiet: true })
  return { url, close: stop }
}
