import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { control } from '../control.ts'
import { createFleet, type Fleet, type FleetOptions } from '../fleet.ts'
import { closeServer, EngineHost, listen, readIncoming, send } from './engine-host.ts'
import { KvPublisher, type KvPublisherOptions } from './kv-publisher.ts'

export interface HostOptions extends FleetOptions {
  readonly host?: string
  /** Port of the first engine; the next ones follow, then control. 0 (default): free ports. */
  readonly port?: number
  /** Options for engines with `kvEvents`; needs the package zeromq. */
  readonly publish?: KvPublisherOptions
}

export interface RunningFleet extends Fleet {
  /** Base URL of each engine. */
  readonly urls: readonly string[]
  /** Base URL of the control API, which faults do not affect. */
  readonly controlUrl: string
  /** Stops everything and frees the ports. */
  close(): Promise<void>
}

/** Starts a fleet on ports. Faults affect sockets: `refuse` closes the listener, `reset` sends a TCP reset. */
export async function startFleet(options: HostOptions = {}): Promise<RunningFleet> {
  const { host = '127.0.0.1', port = 0, publish = {}, ...fleetOptions } = options
  const fleet = createFleet(fleetOptions)
  const publishers = await publishersOf(fleet, publish)
  const hosts = fleet.engines.map((engine, at) => new EngineHost(fleet, engine, host, port === 0 ? 0 : port + at))
  const controlServer = createServer((request, response) => void answerControl(fleet, request, response))
  try {
    await Promise.all(hosts.map((engineHost) => engineHost.open()))
    await listen(controlServer, host, port === 0 ? 0 : port + hosts.length)
  } catch (error) {
    await Promise.all([
      ...hosts.map((engineHost) => engineHost.close()),
      ...publishers.map((publisher) => publisher.close()),
      closeServer(controlServer),
    ])
    throw error
  }
  return {
    ...fleet,
    urls: hosts.map((engineHost) => engineHost.url),
    controlUrl: `http://${host}:${(controlServer.address() as AddressInfo).port}`,
    close: async () => {
      fleet.stop()
      await Promise.all([
        ...hosts.map((engineHost) => engineHost.close()),
        ...publishers.map((publisher) => publisher.close()),
        closeServer(controlServer),
      ])
    },
  }
}

/** Opens event sockets for the engines that publish. Throws ZmqMissing. */
async function publishersOf(fleet: Fleet, options: KvPublisherOptions): Promise<KvPublisher[]> {
  const publishing = fleet.engines.filter(({ settings }) => settings.kvEvents)
  return Promise.all(
    publishing.map(async (engine) => {
      const publisher = await KvPublisher.open(engine.settings.limits.blockTokens, options)
      engine.events = publisher
      return publisher
    }),
  )
}

async function answerControl(fleet: Fleet, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    send(response, await control(fleet, await readIncoming(request, new AbortController().signal)))
  } catch {
    request.socket.destroy()
  }
}
