import { issuedKeysContract } from '../../contracts/issued-keys.ts'

issuedKeysContract('worker')
