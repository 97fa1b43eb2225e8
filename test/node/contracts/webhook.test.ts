import { webhookContract } from '../../contracts/webhook.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

webhookContract('a gateway on Node', { start: startNodeGateway })
