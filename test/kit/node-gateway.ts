import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'

export interface NodeGateway extends RunningGateway {
  /** Waits up to a second for running requests. */
  close(): Promise<void>
}

export const nodeConfig = (document: object): Config =>
  parseConfig({ ...document, listen: '127.0.0.1:0' }, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })

/** Starts a gateway with this document on any free port, without log output. */
export async function startNodeGateway(document: object): Promise<NodeGateway> {
  const gateway = await startGateway(nodeConfig(document), openLog('silent'))
  return { ...gateway, close: async () => void (await gateway.stop(AbortSignal.timeout(1_000))) }
}
