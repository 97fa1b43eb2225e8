import type { Config } from './config.ts'
import type { Ports, RequestScope } from './ports.ts'

/** The product as one fetch function. */
export interface Gateway {
  fetch(request: Request, scope: RequestScope): Promise<Response>
  /** Scrapes every engine once and tells the cluster objects. Timers and alarms call it. */
  probe(): Promise<void>
  /** From now on `/ready` says no and new requests are refused; running ones go on. */
  drain(): void
}

export declare function createGateway(config: Config, ports: Ports): Gateway
