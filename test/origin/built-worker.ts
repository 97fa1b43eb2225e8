/** The Worker as it is deployed, bundled from the sources as they are now, and run by workerd behind a real socket. */
import { bundleWorker } from '../../scripts/bundle-worker.ts'
import { startEdge } from '../../scripts/edge.ts'

export interface BuiltWorker {
  readonly url: string
  close(): Promise<void>
}

let bundle: Promise<string> | null = null

/** `bindings` as on a deployed Worker; the configuration is `FIRSTLIGHT_CONFIG`. */
export async function startBuiltWorker(bindings: Readonly<Record<string, string>>): Promise<BuiltWorker> {
  bundle ??= bundleWorker(new URL('../../src/worker.ts', import.meta.url))
  const { url, stop } = await startEdge({ port: 0, bindings, script: await bundle, quiet: true })
  return { url, close: stop }
}
