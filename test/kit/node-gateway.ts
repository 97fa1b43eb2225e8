/** A gateway on Node from a whole configuration. */
import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import type { RuntimeHooks } from '../../src/platform/node/ports.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'

/** An entry of the log. */
export type LogLine = Readonly<Record<string, unknown>>

export interface NodeGateway extends RunningGateway {
  /** Entries of the log at the level of the configuration; empty without `log` in it. */
  readonly lines: LogLine[]
  /** Waits up to a second for running requests. */
  close(): Promise<void>
}

export interface NodeGatewayOptions {
  /** Default: any free port. */
  readonly port?: number
  readonly hooks?: RuntimeHooks
}

/** The configuration of a document, as `firstlight serve` reads it. */
export const nodeConfig = (document: object, port = 0): Config =>
  parseConfig(
    { ...document, listen: `127.0.0.1:${port}` },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )

/** Starts a gateway with this document. It logs only if the document has `log`, and to `lines`. */
export async function startNodeGateway(document: object, options: NodeGatewayOptions = {}): Promise<NodeGateway> {
  const config = nodeConfig({ log: { level: 'silent' }, ...document }, options.port)
  const lines: LogLine[] = []
  const log = openLog(config.log.level, { write: (line) => void lines.push(JSON.parse(line) as LogLine) })
  const gateway = await startGateway(config, log, '.', options.hooks)
  return { ...gateway, lines, close: async () => void (await gateway.stop(AbortSignal.timeout(1_000))) }
}
