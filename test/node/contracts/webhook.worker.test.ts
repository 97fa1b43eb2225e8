import { webhookContract } from '../../contracts/webhook.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

webhookContract('the built Worker', { start: startBuiltWorker })
