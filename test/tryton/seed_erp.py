"""Sets up a small company in an empty Tryton database: `python3 seed_erp.py DATABASE`.

Works through proteus, without a server; the modules have to be activated before. tryton-server.ts lists what the
company consists of: keep its names and numbers in step with this file.
"""
import datetime
import sys
from decimal import Decimal

from proteus import Model, Wizard, config

PASSWORDS = {
    'connector': 'connector-password',
    'reader': 'reader-password',
    'requester': 'requester-password',
    }


def save(model, /, **values):
    record = Model.get(model)(**values)
    record.save()
    return record


def find(model, *domain):
    record, = Model.get(model).find(list(domain))
    return record


def seed(settings):
    currencies = {}
    # The company's own currency has the rate 1. The other rates say how many units one euro buys.
    for code, name, symbol, digits, rate in [
            ('EUR', "Euro", '€', 2, '1'),
            ('USD', "US Dollar", '$', 2, '1.25'),
            ('GBP', "Pound Sterling", '£', 2, '0.8'),
            ('CHF', "Swiss Franc", 'Fr.', 2, '0.9375'),
            ('JPY', "Yen", '¥', 0, '160'),
            ]:
        currencies[code] = save('currency.currency', code=code, name=name, symbol=symbol, digits=digits,
            rounding=Decimal(1).scaleb(-digits))
        save('currency.currency.rate', currency=currencies[code], date=datetime.date(2020, 1, 1), rate=Decimal(rate))

    countries = {
        code: save('country.country', code=code, code3=code3, name=name) for code, code3, name in [
            ('DE', 'DEU', "Germany"), ('FR', 'FRA', "France"), ('JP', 'JPN', "Japan"), ('US', 'USA', "United States")]}

    wizard = Wizard('company.company.config')
    wizard.execute('company')
    owner = Model.get('party.party')(name="Buyer GmbH", code='BUYER')
    owner.addresses[0].street = "Hafenstraße 1"
    owner.addresses[0].postal_code = '20457'
    owner.addresses[0].city = "Hamburg"
    owner.addresses[0].country = countries['DE']
    owner.save()
    wizard.form.party = owner
    wizard.form.currency = currencies['EUR']
    wizard.execute('add')
    company = find('company.company')
    User = Model.get('res.user')
    settings._context = User.get_preferences(True, {})

    template = find('ir.model.data', ('module', '=', 'account'), ('fs_id', '=', 'account_template_root_en'))
    wizard = Wizard('account.create_chart')
    wizard.execute('account')
    wizard.form.account_template = Model.get('account.account.template')(template.db_id)
    wizard.form.company = company
    wizard.execute('create_account')
    wizard.form.account_receivable = find('account.account', ('type.receivable', '=', True))
    wizard.form.account_payable = find('account.account', ('type.payable', '=', True))
    wizard.execute('create_properties')

    warehouse = find('stock.location', ('code', '=', 'WH'))
    warehouse.address = owner.addresses[0]
    warehouse.save()

    expense = find('account.account', ('type.expense', '=', True))
    category = save('product.category', name="Purchased", accounting=True, account_expense=expense)
    unit = find('product.uom', ('symbol', '=', 'u'))
    # "Unit" has no decimals. A lot of 2.5 needs a unit of the same category with decimals.
    save('product.uom', name="Unit with decimals", symbol='ud', category=unit.category, factor=1.0, rate=1.0,
        digits=4, rounding=0.0001)
    for code, name, symbol, kind in [
            ('LOT', "Sourced lot", 'u', 'goods'),
            ('BOLT-M8', "Bolt M8", 'u', 'goods'),
            ('STEEL', "Sheet steel", 'kg', 'goods'),
            ('CABLE', "Cable", 'm', 'goods'),
            ('WORK', "Installation work", 'h', 'service'),
            ]:
        uom = find('product.uom', ('symbol', '=', symbol))
        product = Model.get('product.template')(name=name, code=code, type=kind, default_uom=uom, list_price=Decimal(0),
            purchasable=True, account_category=category)
        product.save()

    for code, name, vat, street, postal_code, city, country in [
            ('V-1001', "Müller & Söhne KG", 'DE136695976', "Torstraße 7", '10119', "Berlin", 'DE'),
            ('V-1002', "Ets. Lefèvre", 'FR40303265045', "3 rue de l'Église", '69001', "Lyon", 'FR'),
            ('V-1003', "山田製作所", None, "丸の内1-1", '100-0005', "東京", 'JP'),
            ]:
        party = Model.get('party.party')(code=code, name=name)
        if vat:
            party.identifiers.new(type='eu_vat', code=vat)
        party.addresses[0].street = street
        party.addresses[0].postal_code = postal_code
        party.addresses[0].city = city
        party.addresses[0].country = countries[country]
        party.contact_mechanisms.new(type='email', value=f'sales@{code.lower()}.example')
        party.save()

    def user(login, name, groups, employee=False):
        record = User(login=login, name=name, password=PASSWORDS[login])
        for group in groups:
            record.groups.append(find('res.group', ('name', '=', group)))
        if employee:
            party = save('party.party', name=name, code=login.upper())
            record.employees.append(save('company.employee', party=party, company=company))
            record.employee = record.employees[0]
        record.save()

    reader = save('res.group', name="Reader")
    for model in ['party.party', 'party.address', 'party.contact_mechanism', 'party.identifier', 'purchase.purchase',
            'purchase.line', 'purchase.product_supplier', 'purchase.product_supplier.price', 'purchase.request',
            'purchase.request.quotation', 'purchase.request.quotation.line', 'purchase.requisition', 'ir.attachment']:
        save('ir.model.access', model=find('ir.model', ('model', '=', model)), group=reader, perm_read=True)
    user('reader', "Reader", ['Reader'])
    user('connector', "Sourcing Bridge", ['Purchase', 'Purchase Request', 'Purchase Requisition', 'Purchase Requisition Approval'])
    user('requester', "Rita Requester", ['Purchase Requisition', 'Purchase Requisition Approval'], employee=True)


if __name__ == '__main__':
    seed(config.set_trytond(sys.argv[1], user='admin'))
