import { NO_USAGE } from '../reported-usage.ts'
import type { StreamGrammar } from './event.ts'

/** Grammar of event streams of protocols that have none: any event is output, and any end is proper. */
export const OPAQUE: StreamGrammar = {
  named: new Map(),
  outlines: new Map(),
  needsFinish: false,
  endsAnywhere: true,
  numbered: false,
  read: () => ({ kind: 'output', choice: 0, text: '' }),
  usage: () => NO_USAGE,
  mayFollowEnd: () => true,
}
