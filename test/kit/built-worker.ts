/** The deployed Worker (dist/worker, see test/setup/built-worker.ts) in workerd, on a real socket. */
import { startEdge } from '../../scripts/edge.ts'

export interface BuiltWorker {
  readonly url: string
  close(): Promise<void>
}

/** Starts it with this configuration, as an object or as text, and without log output unless the object has `log`. */
export async function startBuiltWorker(
  document: object | string,
  secrets: Readonly<Record<string, string>> = {},
): Promise<BuiltWorker> {
  const config = typeof document === 'string' ? document : JSON.stringify({ log: { level: 'silent' }, ...document })
  const { url, stop } = await startEdge({
    port: 0,
    bindings: { ...secrets, FIRSTLIGHT_CONFIG: config },
    quiet: true,
  })
  return { url, close: stop }
}
