// Goes through what a program asks of a Stellar RPC server by Stellar's own JavaScript SDK: lists of
// transactions and events, fees, a prepared call of an asset contract, balances, offers, data, options
// and conditional claimants. Arguments: the RPC URL. Prints what it saw as one line of JSON.
import {
  Address, Asset, BASE_FEE, Claimant, Contract, Keypair, Operation, TransactionBuilder, nativeToScVal, rpc, scValToNative, xdr,
} from '@stellar/stellar-sdk';

const url = process.argv[2];
const server = new rpc.Server(url, { allowHttp: true });
const { passphrase } = await server.getNetwork();
const version = await server.getVersionInfo();
const start = (await server.getLatestLedger()).sequence;

const alice = Keypair.random();
const bob = Keypair.random();
await server.requestAirdrop(alice.publicKey());
await server.requestAirdrop(bob.publicKey());
const accounts = new Map();
for (const pair of [alice, bob]) accounts.set(pair, await server.getAccount(pair.publicKey()));

async function send(tx, pair) {
  tx.sign(pair);
  const sent = await server.sendTransaction(tx);
  if (sent.status !== 'PENDING') throw new Error(`sendTransaction answered ${sent.status}: ${sent.errorResult?.toXDR('base64')}`);
  return server.pollTransaction(sent.hash, { attempts: 100, sleepStrategy: () => 50 });
}

function build(pair, ...operations) {
  const builder = new TransactionBuilder(accounts.get(pair), { fee: BASE_FEE, networkPassphrase: passphrase });
  for (const operation of operations) builder.addOperation(operation);
  return builder.setTimeout(60).build();
}

const status = async (pair, ...operations) => (await send(build(pair, ...operations), pair)).status;

const lumens = new Contract(Asset.native().contractId(passphrase));
const call = build(alice, lumens.call('transfer', new Address(alice.publicKey()).toScVal(), new Address(bob.publicKey()).toScVal(), nativeToScVal(125000000n, { type: 'i128' })));
const prepared = await server.prepareTransaction(call);
const transferred = await send(prepared, alice);
const poor = await server.simulateTransaction(build(bob, lumens.call('transfer', new Address(bob.publicKey()).toScVal(), new Address(alice.publicKey()).toScVal(), nativeToScVal(10n ** 17n, { type: 'i128' }))));
accounts.set(bob, await server.getAccount(bob.publicKey())); // the simulated transaction took a number

const euro = new Asset('EURO5', alice.publicKey());
const trusted = await status(bob, Operation.changeTrust({ asset: euro }));
const sold = await status(alice, Operation.manageSellOffer({ selling: euro, buying: Asset.native(), amount: '10', price: 2 }));
const bought = await status(bob, Operation.manageBuyOffer({ selling: Asset.native(), buying: euro, buyAmount: '4', price: '2.5' }));
const options = await status(alice, Operation.setOptions({ homeDomain: 'shop.example' }));
const data = await status(alice, Operation.manageData({ name: 'order', value: '42' }));
const created = await send(build(alice, Operation.createClaimableBalance({
  asset: Asset.native(),
  amount: '7',
  claimants: [new Claimant(bob.publicKey(), Claimant.predicateBeforeRelativeTime('3600')), new Claimant(alice.publicKey(), Claimant.predicateNot(Claimant.predicateBeforeRelativeTime('3600')))],
})), alice);
const balanceId = created.resultXdr.result().results()[0].tr().createClaimableBalanceResult().balanceId().toXDR('hex');
const early = await status(alice, Operation.claimClaimableBalance({ balanceId }));
const claimed = await status(bob, Operation.claimClaimableBalance({ balanceId }));

const listed = [];
for (let page = await server.getTransactions({ startLedger: start, pagination: { limit: 3 } }); page.transactions.length > 0;
  page = await server.getTransactions({ pagination: { cursor: page.cursor, limit: 3 } })) {
  listed.push(...page.transactions.map((tx) => tx.txHash));
}
const filters = [{ type: 'contract', contractIds: [lumens.contractId()], topics: [[xdr.ScVal.scvSymbol('transfer').toXDR('base64'), '*', '*', '*']] }];
const events = await server.getEvents({ startLedger: start, filters });
const after = await server.getEvents({ cursor: events.cursor, filters });
const fees = await server.getFeeStats();
const euros = await server.getAssetBalance(bob.publicKey(), euro, passphrase);
const native = await server.getAssetBalance(bob.publicKey(), Asset.native(), passphrase);
const contractHolds = await server.getAssetBalance(lumens.contractId(), Asset.native(), passphrase);

console.log(JSON.stringify({
  version: version.protocolVersion,
  fee: fees.inclusionFee.mode,
  statuses: { transferred: transferred.status, trusted, sold, bought, options, data, created: created.status, early, claimed },
  refused: rpc.Api.isSimulationError(poor),
  auth: prepared.operations[0].auth.length,
  distinct: new Set(listed).size === listed.length,
  listed: listed.length,
  events: events.events.map((e) => ({ ledger: e.ledger, from: scValToNative(e.topic[1]), amount: String(scValToNative(e.value)), hash: e.txHash })),
  later: after.events.length,
  euros: euros.balanceEntry.amount,
  lumens: native.balanceEntry.amount,
  contractHolds: contractHolds.balanceEntry === undefined,
  transfer: transferred.txHash,
  alice: alice.publicKey(),
}));
