import type { Ports } from '../ports.ts'

/** Ports of the path of a request to an engine. Every runtime has them: the path depends on no capability. */
export type UpstreamPorts = Pick<Ports, 'pool' | 'origin' | 'now' | 'random' | 'newId' | 'log' | 'alerts' | 'timers'>
