import { webhookContract } from '../../contracts/webhook.ts'

webhookContract('worker')
